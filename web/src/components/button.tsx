import type { ComponentChildren } from "preact";
import { Icon, type IconName } from "./icons";

interface IconButtonProps {
  icon: IconName;
  label: string;
  onClick: (event: MouseEvent) => void;
  class?: string;
  disabled?: boolean;
  pressed?: boolean;
  expanded?: boolean;
  size?: number;
  children?: ComponentChildren;
}

/** A button that is an icon; its label is read out and shown as a tooltip. */
export function IconButton({ icon, label, onClick, class: extra = "", disabled = false, pressed, expanded, size, children }: IconButtonProps) {
  return (
    <button type="button" class={`icon-button ${extra}`} aria-label={label} title={label} onClick={onClick} disabled={disabled}
      {...(pressed !== undefined && { "aria-pressed": pressed })} {...(expanded !== undefined && { "aria-expanded": expanded })}>
      <Icon name={icon} {...(size !== undefined && { size })} />
      {children}
    </button>
  );
}

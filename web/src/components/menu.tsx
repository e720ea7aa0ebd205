import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Icon, type IconName } from "./icons";
import { IconButton } from "./button";

export interface MenuItem {
  readonly icon: IconName;
  readonly label: string;
  readonly run: () => void;
  readonly danger?: boolean;
  readonly disabled?: boolean;
}

/** A button with a list of actions. Closes on choice, on Escape, and on a click elsewhere. */
export function Menu({ label, items }: { label: string; items: readonly MenuItem[] }) {
  const open = useSignal(false);
  const root = useRef<HTMLDivElement>(null);

  useEffect(() => {
    if (!open.value) return;
    root.current?.querySelector<HTMLElement>('[role="menuitem"]:not(:disabled)')?.focus();
    const close = (event: Event): void => { if (!root.current?.contains(event.target as Node)) open.value = false; };
    document.addEventListener("pointerdown", close);
    return () => document.removeEventListener("pointerdown", close);
  }, [open.value]);

  const onKey = (event: KeyboardEvent): void => {
    if (event.key === "Escape") {
      open.value = false;
      root.current?.querySelector<HTMLElement>("button")?.focus();
    }
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    const choices = [...(root.current?.querySelectorAll<HTMLElement>('[role="menuitem"]:not(:disabled)') ?? [])];
    const at = choices.indexOf(document.activeElement as HTMLElement);
    choices[(at + (event.key === "ArrowDown" ? 1 : choices.length - 1)) % choices.length]?.focus();
  };

  return (
    <div class="menu" ref={root} onKeyDown={onKey}>
      <IconButton icon="more" label={label} expanded={open.value} onClick={() => { open.value = !open.value; }} />
      {open.value && (
        <div class="menu-list" role="menu">
          {items.map((item) => (
            <button key={item.label} type="button" role="menuitem" class={item.danger ? "danger" : ""} disabled={item.disabled ?? false}
              onClick={() => { open.value = false; item.run(); }}>
              <Icon name={item.icon} />{item.label}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}

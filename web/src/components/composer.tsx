/** Where messages are written: text, files, drag and drop, long pastes. */
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Draft, DraftFile, Written } from "../models/attachments";
import { bytes } from "../models/clock";
import { IconButton } from "./button";
import { useFileDrop } from "./file-drop";
import { Icon } from "./icons";
import { memo } from "./memo";

/** A pasted text longer than this becomes a file. */
const LONG_PASTE = 64 * 1024;
/** On a keyboard of glass Enter makes a new line: there is no Shift+Enter, and the button is near. And no file is dropped with a finger. */
export const TOUCH = "(hover: none) and (pointer: coarse)";

interface ComposerProps {
  draft: Draft;
  placeholder: string;
  disabled?: boolean;
  autofocus?: boolean;
  onSend: (message: Written) => void;
  /** Further buttons, before the one that sends. */
  children?: ComponentChildren;
}

export function Composer({ draft, placeholder, disabled = false, autofocus = false, onSend, children }: ComposerProps) {
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const dragging = useFileDrop((files) => { if (!disabled) draft.add(files); });
  const text = draft.text.value;
  const files = draft.files.value;
  const waiting = draft.waiting.value;
  const ready = !disabled && !waiting && draft.blocked === null;

  useLayoutEffect(() => {
    const element = area.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, Math.max(160, innerHeight * 0.35))}px`;
  }, [text]);
  useLayoutEffect(() => {
    if (autofocus && matchMedia("(hover: hover)").matches) area.current?.focus();
  }, [draft]);

  const send = (): void => {
    if (!ready) return;
    draft.send(onSend);
    area.current?.focus();
  };
  const onPaste = (event: ClipboardEvent): void => {
    const pasted = event.clipboardData;
    if (!pasted) return;
    if (pasted.files.length > 0) {
      event.preventDefault();
      draft.add([...pasted.files]);
      return;
    }
    const long = pasted.getData("text/plain");
    if (long.length <= LONG_PASTE) return;
    event.preventDefault();
    draft.add([new File([long], "pasted.txt", { type: "text/plain" })]);
  };
  return (
    <form class={`composer ${dragging ? "dragging" : ""}`} aria-label="Write a message"
      onSubmit={(event) => { event.preventDefault(); send(); }}>
      {dragging && <div class="drop-hint" aria-hidden="true"><Icon name="attach" /> Drop files here</div>}
      {files.length > 0 && <ul class="draft-files">{files.map((file) => <DraftFileChip key={file.key} file={file} draft={draft} />)}</ul>}
      <textarea ref={area} rows={1} value={text} placeholder={placeholder} aria-label="Message" disabled={disabled} readOnly={waiting}
        onInput={(event) => { draft.text.value = event.currentTarget.value; }}
        onPaste={onPaste}
        onKeyDown={(event) => {
          if (event.key === "Escape" && waiting) {
            event.preventDefault();
            draft.hold();
          }
          if (event.key !== "Enter" || event.shiftKey || event.isComposing || matchMedia(TOUCH).matches) return;
          event.preventDefault();
          send();
        }} />
      <div class="composer-bar">
        <input ref={picker} type="file" multiple hidden aria-label="Files" data-role="file-picker"
          onChange={(event) => {
            draft.add([...(event.currentTarget.files ?? [])]);
            event.currentTarget.value = "";
          }} />
        <IconButton icon="attach" label="Attach files" disabled={disabled} onClick={() => picker.current?.click()} />
        {waiting
          ? <p class="composer-waits" role="status">Sent when the files have arrived. <button type="button" class="link" onClick={() => draft.hold()}>Not yet</button></p>
          : <span class="composer-hint">Enter sends · Shift+Enter for a new line</span>}
        {children}
        <button type="submit" class="send" aria-label="Send" disabled={!ready}
          title={waiting ? "It is sent when the files have arrived" : draft.blocked ?? "Send"}><Icon name="send" size={20} /></button>
      </div>
    </form>
  );
}

const DraftFileChip = memo(function DraftFileChip({ file, draft }: { file: DraftFile; draft: Draft }) {
  const share = file.upload ? 1 : file.progress.value;
  return (
    <li class={`draft-file ${file.error ? "failed" : file.upload ? "done" : ""}`}>
      <Icon name={file.error ? "error" : file.upload ? "check" : "file"} size={15} />
      <span class="file-name" title={file.name}>{file.name}</span>
      {!file.error && <span class="file-size">{file.upload ? bytes(file.size) : `${Math.round(share * 100)} %`}</span>}
      {file.error && !file.tooLarge && <IconButton icon="retry" label={`Send ${file.name} again`} size={14} onClick={() => draft.retry(file.key)} />}
      <IconButton icon="close" label={`Remove ${file.name}`} size={14} onClick={() => draft.remove(file.key)} />
      {file.error && <span class="file-error" role="alert">{file.error}</span>}
      {!file.error && !file.upload && <progress value={share} max={1} aria-label={`Upload of ${file.name}`} />}
    </li>
  );
});

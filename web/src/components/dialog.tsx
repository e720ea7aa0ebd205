import { useEffect, useRef } from "preact/hooks";

interface ConfirmProps {
  title: string;
  text: string;
  action: string;
  onConfirm: () => void;
  onClose: () => void;
}

/** Asks before something that cannot be undone. */
export function Confirm({ title, text, action, onConfirm, onClose }: ConfirmProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => { dialog.current?.showModal(); }, []);
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="dialog-title" onClose={onClose}
      onClick={(event) => { if (event.target === dialog.current) dialog.current?.close(); }}>
      <div class="dialog-body">
        <h2 id="dialog-title">{title}</h2>
        <p>{text}</p>
        <div class="dialog-actions">
          <button type="button" class="button" onClick={() => dialog.current?.close()}>Cancel</button>
          <button type="button" class="button danger" onClick={() => { dialog.current?.close(); onConfirm(); }}>{action}</button>
        </div>
      </div>
    </dialog>
  );
}

/** Files that are dropped anywhere on the page. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

function hasFiles(event: DragEvent): boolean {
  return event.dataTransfer?.types.includes("Files") ?? false;
}

/** Give dropped files to `take`; tells whether some are being held over the page. */
export function useFileDrop(take: (files: File[]) => void): boolean {
  const over = useSignal(false);
  const taker = useRef(take);
  taker.current = take;
  useEffect(() => {
    const onOver = (event: DragEvent): void => {
      if (!hasFiles(event) || !event.dataTransfer) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = "copy";
      over.value = true;
    };
    // Only when the page is left, not an element on it, is there no element that is entered.
    const onLeave = (event: DragEvent): void => { if (event.relatedTarget === null) over.value = false; };
    const onDrop = (event: DragEvent): void => {
      over.value = false;
      if (!hasFiles(event)) return;
      event.preventDefault();
      taker.current([...(event.dataTransfer?.files ?? [])]);
    };
    addEventListener("dragover", onOver);
    addEventListener("dragleave", onLeave);
    addEventListener("drop", onDrop);
    return () => {
      removeEventListener("dragover", onOver);
      removeEventListener("dragleave", onLeave);
      removeEventListener("drop", onDrop);
    };
  }, []);
  return over.value;
}

/** Where nobody takes files, the browser would leave the page and open them. */
export function useNoFileDrop(): void {
  useEffect(() => {
    const refuse = (event: DragEvent): void => {
      if (!hasFiles(event) || event.defaultPrevented || !event.dataTransfer) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = "none";
    };
    addEventListener("dragover", refuse);
    addEventListener("drop", refuse);
    return () => {
      removeEventListener("dragover", refuse);
      removeEventListener("drop", refuse);
    };
  }, []);
}

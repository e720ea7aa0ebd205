/** Files as chips; those that the hub has can be taken from there. */
import type { Json } from "../wire";
import { bytes } from "../models/clock";
import { useApp } from "./context";
import { Icon } from "./icons";

export interface FileInfo { readonly id: string; readonly name: string; readonly size: number }

export function Files({ files }: { files: readonly FileInfo[] }) {
  const app = useApp();
  if (files.length === 0) return null;
  const save = async (file: FileInfo): Promise<void> => {
    try {
      const address = URL.createObjectURL(await app.client.download(file.id));
      const anchor = document.createElement("a");
      anchor.href = address;
      anchor.download = file.name || file.id;
      anchor.click();
      setTimeout(() => URL.revokeObjectURL(address), 60_000);
    } catch (error) {
      app.tell(error);
    }
  };
  return (
    <ul class="files">
      {files.map((file) => (
        <li key={file.id}>
          <button type="button" class="file" title={`Save ${file.name}`} onClick={() => void save(file)}>
            <Icon name="file" size={15} /><span class="file-name">{file.name || file.id}</span>
            {file.size > 0 && <span class="file-size">{bytes(file.size)}</span>}
          </button>
        </li>
      ))}
    </ul>
  );
}

/** The attachments among an entry's pairs. */
export function filesIn(value: Json | undefined): FileInfo[] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((item) => {
    if (typeof item !== "object" || item === null || Array.isArray(item) || typeof item["id"] !== "string") return [];
    const { id, name, size } = item;
    return [{ id, name: typeof name === "string" ? name : "", size: typeof size === "number" ? size : 0 }];
  });
}

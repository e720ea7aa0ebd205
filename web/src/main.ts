import "./styles/base.css";
import "./styles/layout.css";
import "./styles/log.css";
import "./styles/parts.css";
import { mount, type Mounted } from "./components/mount";

declare global {
  /** The page's models, for looking into them from the browser's console and from tests. */
  var sessionHub: Mounted | undefined;
}

globalThis.sessionHub = mount(document.getElementById("app") as HTMLElement);

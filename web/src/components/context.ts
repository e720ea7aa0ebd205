import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { App } from "../models/app";

export const AppContext = createContext<App | null>(null);

export function useApp(): App {
  const app = useContext(AppContext);
  if (!app) throw new Error("outside of the app");
  return app;
}

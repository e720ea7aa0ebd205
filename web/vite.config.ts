import { defineConfig } from "vitest/config";

const hub = process.env["HUB_URL"] ?? "http://127.0.0.1:8765";

export default defineConfig({
  // The page is served at / and at /c/<id>, so that assets need absolute addresses.
  base: "/",
  build: {
    outDir: "../hub/server/static",
    emptyOutDir: true,
    target: "es2022",
    // The policy of the page (default-src 'self') admits no data: addresses.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  server: {
    host: "127.0.0.1",
    proxy: {
      "/socket.io": { target: hub, ws: true },
      "/api": { target: hub },
      "/healthz": { target: hub },
    },
  },
  test: {
    include: ["tests/**/*.test.ts"],
    environment: "node",
  },
});

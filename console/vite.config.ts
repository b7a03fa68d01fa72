import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { packed } from "./scripts/packed.mjs";

// In development the pages come from Vite and the data from a server beside it.
const server = process.env.SICHEN_SERVER ?? "http://127.0.0.1:7070";

export default defineConfig({
  plugins: [react(), packed()],
  // Modules carry no addresses that a policy without inline scripts refuses.
  build: {
    target: "es2022",
    // These know `light-dark()`, which would else be rewritten into what the theme does not set.
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
  },
  server: { proxy: { "/api": server } },
});

import "@mantine/core/styles.css";
import "./style.css";
import { createTheme, MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { BrowserRouter } from "react-router";
import { Refused } from "./api/client";
import { App } from "./app";
import { Words } from "./i18n/words";
import { session, takeFromAddress } from "./session/token";
import { Zones } from "./time/zone";

// Before anything is drawn, so that the token is in the address for no longer than it has to be.
takeFromAddress();
window.addEventListener("hashchange", takeFromAddress);

const theme = createTheme({
  primaryColor: "cyan",
  // Dark enough for white words on it.
  primaryShade: 9,
  fontFamily:
    'system-ui, -apple-system, "Segoe UI", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif',
  fontFamilyMonospace: 'ui-monospace, "SF Mono", Consolas, "Noto Sans Mono CJK SC", monospace',
  defaultRadius: "sm",
  autoContrast: true,
  respectReducedMotion: true,
});

const cache = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // What is refused will be refused again; a server that is away may come back.
      retry: (count, error) => error instanceof Refused && error.isAway && count < 2,
      refetchOnWindowFocus: true,
    },
  },
});

// What one token saw is not shown to another.
session.listen(() => cache.clear());

const root = document.getElementById("root");
if (root !== null) {
  createRoot(root).render(
    <StrictMode>
      <MantineProvider theme={theme} defaultColorScheme="auto">
        <QueryClientProvider client={cache}>
          <Words>
            <Zones>
              <BrowserRouter>
                <App />
              </BrowserRouter>
            </Zones>
          </Words>
        </QueryClientProvider>
      </MantineProvider>
    </StrictMode>,
  );
}

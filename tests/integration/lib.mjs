// What every integration test uses; see lib/ for each part.
export * from './lib/daemon.mjs';
export * from './lib/host.mjs';
export * from './lib/http.mjs';
export * from './lib/internet.mjs';
export * from './lib/paths.mjs';
export * from './lib/tar.mjs';
export * from './lib/websocket.mjs';

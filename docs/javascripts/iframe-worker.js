// Search without a web server. Browsers start no Worker from a file: address, so the worker's script runs in a hidden
// frame instead, with the same messages. Elsewhere nothing changes.
"use strict";
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html><title>search</title>";
      this.inside = new Promise((ready) => {
        frame.addEventListener("load", () => {
          const inside = frame.contentWindow, script = inside.document.createElement("script");
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data: data }));
          script.addEventListener("load", () => ready(inside));
          script.src = new URL(address, location.href).href;
          inside.document.head.append(script);
        }, { once: true });
      });
      const add = () => document.body.append(frame);
      if (document.body) { add(); } else { document.addEventListener("DOMContentLoaded", add); }
    }

    postMessage(data) {
      this.inside.then((inside) => inside.dispatchEvent(new inside.MessageEvent("message", { data: data })));
    }
  };
}

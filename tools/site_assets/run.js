/* "Run" under the code of a page: Python in the visitor's browser, by Pyodide, in a worker.
   Nothing is loaded before the first press. A page's cells share their names, and those above run
   first; a program (class `program`) runs by itself. */
"use strict";

(() => {
  const here = new URL(".", document.currentScript.src);
  const settings = window.pullbackRun;

  // The text of the worker, which must not use anything from outside.
  function inWorker() {
    let python = null;
    let cells = null;
    let names = null;

    const start = async ({ pyodide, archive }) => {
      const { loadPyodide } = await import(`${pyodide}pyodide.mjs`);
      python = await loadPyodide({ indexURL: pyodide, env: { HOME: "/home/pyodide", MPLBACKEND: "Agg" } });
      await python.loadPackage("numpy", { messageCallback: () => {} });
      python.unpackArchive(archive, "zip");
      cells = python.pyimport("pullback_cells");
      names = python.runPython("{'__name__': '__main__'}");
    };

    const run = async ({ id, code, program }) => {
      const plain = code.replace(/^(>>>|\.\.\.) ?/gm, "");
      await python.loadPackagesFromImports(plain, { messageCallback: () => {} });
      const show = (kind, data) => postMessage({ kind, id, data });
      const ended = cells.run(code, names, show, program);
      postMessage({ kind: "done", id, ended });
    };

    onmessage = async ({ data }) => {
      try {
        await (data.kind === "start" ? start(data) : run(data));
        if (data.kind === "start") postMessage({ kind: "ready" });
      } catch (error) {
        postMessage({ kind: "failed", data: String(error.message || error) });
      }
    };
  }

  const makeWorker = () => {
    if (settings.makeWorker) return settings.makeWorker(); // a stand-in, in tests
    const text = new Blob([`(${inWorker})()`], { type: "text/javascript" });
    return new Worker(URL.createObjectURL(text), { type: "module" });
  };

  // As a script, since a page that was opened as a file may fetch nothing.
  const archive = () =>
    new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = new URL("run-package.js", here);
      script.onload = () => {
        const bytes = Uint8Array.from(atob(window.pullbackPackage), (c) => c.charCodeAt(0));
        delete window.pullbackPackage;
        resolve(bytes);
      };
      script.onerror = () => reject(new Error(`${script.src} cannot be loaded`));
      document.head.append(script);
    });

  let worker = null; // one for the page, from the first press on
  let ready = null;
  let refuse = null;
  let turn = Promise.resolve(); // cells run one after the other
  const cells = [];

  const start = () => {
    if (ready) return ready;
    worker = makeWorker();
    ready = new Promise((resolve, reject) => {
      refuse = reject;
      worker.onmessage = ({ data }) => {
        if (data.kind === "ready") resolve();
        else if (data.kind === "failed") stop(data.data);
        else cells[data.id].take(data);
      };
      worker.onerror = (event) => stop(event.message || "the worker cannot be started");
      archive().then((bytes) => {
        const pyodide = new URL(settings.pyodide, new URL("..", here)).href;
        worker?.postMessage({ kind: "start", pyodide, archive: bytes });
      }, (error) => stop(error.message));
    });
    ready.catch(() => {});
    return ready;
  };

  const stop = (why) => {
    worker?.terminate();
    worker = ready = null;
    refuse?.(new Error(why));
    for (const cell of cells) cell.reset(why);
    turn = Promise.resolve();
  };

  class Cell {
    constructor(block, id) {
      this.id = id;
      this.code = block.querySelector("code").textContent;
      this.program = block.classList.contains("program") ? `${block.id || "program"}.py` : "";
      this.state = "idle";
      this.bar = document.createElement("div");
      this.bar.className = "run-bar";
      this.button = document.createElement("button");
      this.button.type = "button";
      this.button.onclick = () => this.pressed();
      this.status = document.createElement("span");
      this.status.setAttribute("role", "status");
      this.bar.append(this.button, this.status);
      this.output = document.createElement("div");
      this.output.className = "run-output";
      this.output.hidden = true;
      block.after(this.bar, this.output);
      this.show("idle", "");
    }

    show(state, said) {
      this.state = state;
      const busy = state === "waiting" || state === "running";
      this.button.textContent = busy ? "Stop" : state === "idle" ? "Run" : "Run again";
      this.button.classList.toggle("run-stop", busy);
      this.status.textContent = said;
    }

    pressed() {
      if (this.state === "waiting" || this.state === "running") {
        stop("Stopped.");
        return;
      }
      const above = cells.slice(0, this.id).filter((cell) => !cell.program && cell.state === "idle");
      for (const cell of this.program ? [this] : [...above, this]) cell.queue();
    }

    queue() {
      this.output.replaceChildren();
      this.output.hidden = true;
      const first = ready ? "Waiting ..." : "Loading Python (about 12 MB, kept by the browser) ...";
      this.show("waiting", first);
      const loaded = start();
      const mine = worker;
      turn = turn.then(() => loaded).then(() => {
        if (mine !== worker) return undefined; // stopped meanwhile
        this.show("running", "Running ...");
        this.began = performance.now();
        const over = new Promise((resolve) => { this.over = resolve; });
        const { id, code, program } = this;
        worker.postMessage({ kind: "run", id, code, program });
        return over;
      }).catch(() => {});
    }

    take({ kind, data, ended }) {
      if (kind === "done") {
        const seconds = ((performance.now() - this.began) / 1000).toFixed(1);
        this.show(ended ? "done" : "failed", `${ended ? "Done" : "Ended by an error"}, ${seconds} s`);
        this.over();
        return;
      }
      this.output.hidden = false;
      if (kind === "text") {
        let last = this.output.lastElementChild;
        if (last?.tagName !== "PRE") {
          last = document.createElement("pre");
          this.output.append(last);
        }
        last.append(data);
      } else if (kind === "image") {
        const image = document.createElement("img");
        image.src = data;
        image.alt = "Picture that this program made";
        this.output.append(image);
      } else if (kind === "page") {
        const frame = document.createElement("iframe");
        frame.setAttribute("sandbox", "allow-scripts");
        frame.title = "Page that this program made";
        frame.srcdoc = data;
        this.output.append(frame);
      }
    }

    reset(why) {
      const busy = this.state === "waiting" || this.state === "running";
      this.show("idle", busy ? why : "");
      this.over?.();
    }
  }

  const prepare = () => {
    for (const block of document.querySelectorAll(".highlight.run")) {
      cells.push(new Cell(block, cells.length));
    }
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", prepare);
  else prepare();
})();

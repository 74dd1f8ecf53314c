// Lets the search work in pages that are opened as files, where browsers refuse to start workers:
// a worker's script runs in a hidden frame, and messages go to and fro as events.
if (location.protocol === "file:") {
  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inner = frame.contentWindow;
      const script = document.createElement("script");
      script.src = new URL(url, document.baseURI).href;
      // What a worker has and a frame has not.
      this.inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inner.importScripts = (...urls) => Promise.all(urls.map((one) => this.load(one)));
      this.ready = new Promise((resolve) => (script.onload = resolve));
      this.inner.document.head.appendChild(script);
      this.frame = frame;
    }

    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.inner.document.createElement("script");
        Object.assign(script, { src: url, async: false, onload: resolve, onerror: reject });
        this.inner.document.head.appendChild(script);
      });
    }

    postMessage(data) {
      const event = () => new this.inner.MessageEvent("message", { data });
      this.ready.then(() => this.inner.dispatchEvent(event()));
    }

    terminate() {
      this.frame.remove();
    }
  }
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
}

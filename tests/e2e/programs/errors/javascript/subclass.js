class HttpError extends Error {
  constructor(status, message) { super(message); this.name = this.constructor.name; this.status = status; }
}
function get() { throw new HttpError(404, "not found"); }
get();

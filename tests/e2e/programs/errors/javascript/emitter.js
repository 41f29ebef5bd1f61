const { EventEmitter } = require("events");
const e = new EventEmitter();
e.emit("error", new Error("boom"));

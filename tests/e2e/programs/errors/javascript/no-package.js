const x = require("nobody-has-this");

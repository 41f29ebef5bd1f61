const http = require("htpp");

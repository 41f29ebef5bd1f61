const fs = require("fs");
fs.readFileSync("missing.txt");

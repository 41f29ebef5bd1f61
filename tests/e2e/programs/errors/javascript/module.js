const x = 1;
const lodash = require("lodash");

const _ = require("express");

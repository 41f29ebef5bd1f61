import fs from "fs";
import _ from "lodash";

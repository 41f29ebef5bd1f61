import { readFil } from "fs";
console.log(readFil);

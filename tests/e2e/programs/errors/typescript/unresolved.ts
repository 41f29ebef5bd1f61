const n: number = 1;
import { x } from "./nobody_has";
console.log(n, x);

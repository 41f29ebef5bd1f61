type A = { a: number };

import _ from "lodash"; 
console.log(_.chunk([1]));

import { f } from "./missing";
f();

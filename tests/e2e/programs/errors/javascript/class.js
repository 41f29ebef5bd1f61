class A { constructor() { this.x = 1; } }
class B extends A {
  constructor() {
    this.y = 2;
    super();
  }
}
new B();

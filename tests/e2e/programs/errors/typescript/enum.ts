enum Level { Low = 1, High }
class Box<T> {
  constructor(private readonly items: T[]) {}
  first(): T { return this.items[0]; }
}
const b = new Box<{ name: string }>([]);
console.log(b.first().name.length);

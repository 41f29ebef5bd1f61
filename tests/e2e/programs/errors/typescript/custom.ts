class NotFound extends Error {
  constructor(public id: number) {
    super(`no ${id}`);
    this.name = "NotFound";
  }
}

type Id = number;

function get(id: Id): never {
  throw new NotFound(id);
}
get(3);

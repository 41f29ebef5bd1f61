interface User { address?: { street: string } }

function show(u: User): string {
  return u.address!.street;
}
show({});

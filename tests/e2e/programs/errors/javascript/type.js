const user = {};
function show(u) {
  return u.address.street;
}
show(user);

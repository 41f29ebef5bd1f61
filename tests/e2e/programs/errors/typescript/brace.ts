function f(): void {
  console.log(1);

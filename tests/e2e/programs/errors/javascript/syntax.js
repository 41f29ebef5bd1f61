function f() {
  let x = ; 
}

use std::cell::RefCell;
fn main() {
    let c = RefCell::new(1);
    let a = c.borrow_mut();
    let b = c.borrow_mut();
    println!("{} {}", a, b);
}

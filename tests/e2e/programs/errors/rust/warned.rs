use std::collections::BTreeMap;

fn unused_one() {}

fn main() {
    let mut x = 5;
    let text = String::from("abc");
    println!("{}", text.length());
}

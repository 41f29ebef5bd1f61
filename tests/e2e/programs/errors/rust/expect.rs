fn main() {
    let s = std::fs::read_to_string("missing.txt").expect("read it");
    println!("{}", s);
}

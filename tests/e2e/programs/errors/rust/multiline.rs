fn main() {
    panic!("first line\nsecond line");
}

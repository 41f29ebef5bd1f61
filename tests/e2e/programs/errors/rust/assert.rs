fn main() {
    let a = 1;
    assert_eq!(a, 2, "numbers differ");
}

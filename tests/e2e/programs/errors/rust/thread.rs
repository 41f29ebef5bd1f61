fn main() {
    let h = std::thread::spawn(|| {
        panic!("in a thread");
    });
    h.join().unwrap();
}

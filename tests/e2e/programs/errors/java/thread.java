public class Main {
    public static void main(String[] args) throws Exception {
        Thread t = new Thread(() -> {
            throw new IllegalStateException("in a thread");
        });
        t.start();
        t.join();
        System.exit(1);
    }
}

public class Main {
    public static void main(String[] args) {
        System.err.println("Error: bad usage");
        System.exit(2);
    }
}

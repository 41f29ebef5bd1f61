public class Main {
    static int f(int n) {
        if (n > 0) return 1;
    }
    public static void main(String[] args) { f(1); }
}

public class Main {
    static class Config {
        static final int N = Integer.parseInt("x");
    }
    public static void main(String[] args) {
        System.out.println(Config.N);
    }
}

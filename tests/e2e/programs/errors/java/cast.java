public class Main {
    public static void main(String[] args) {
        Object o = "s";
        Integer i = (Integer) o;
    }
}

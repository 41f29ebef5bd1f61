import org.missing.Thing;

public class Main {
    public static void main(String[] args) { new Thing(); }
}

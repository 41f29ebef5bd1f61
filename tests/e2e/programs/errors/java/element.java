import java.util.*;

public class Main {
    public static void main(String[] args) {
        new ArrayList<String>().iterator().next();
    }
}

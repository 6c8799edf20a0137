package waterclock;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Iterator;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Questions about two documents of jsonb at once, neither of which is known beforehand.
 *
 * Both are texts in normal form, so they can always be read. No argument is ever null.
 */
public final class Documents {
    private static final ObjectMapper READER = reader();

    private Documents() {}

    private static ObjectMapper reader() {
        ObjectMapper made = new ObjectMapper();
        made.enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS);
        return made;
    }

    /** Whether all that the second says is also said by the first (the operator @>). */
    public static boolean contains(UTF8String whole, UTF8String part) {
        JsonNode left = read(whole);
        JsonNode right = read(part);
        if (left.isContainerNode() && right.isContainerNode()) {
            return left.isObject() == right.isObject() && isIn(right, left);
        }
        if (left.isArray()) {
            return hasScalar(left, right);
        }
        return !left.isContainerNode() && !right.isContainerNode() && isSame(left, right);
    }

    private static JsonNode read(UTF8String text) {
        try {
            return READER.readTree(text.toString());
        } catch (JsonProcessingException fault) {
            throw new IllegalStateException(fault);
        }
    }

    /** Of two objects or two arrays, whether the first is contained in the second. */
    private static boolean isIn(JsonNode part, JsonNode whole) {
        if (part.isObject()) {
            Iterator names = part.fieldNames();
            while (names.hasNext()) {
                String name = (String) names.next();
                JsonNode found = (JsonNode) whole.get(name);
                if (found == null || !isMember((JsonNode) part.get(name), found)) {
                    return false;
                }
            }
            return true;
        }
        for (int n = 0; n < part.size(); n++) {
            JsonNode element = (JsonNode) part.get(n);
            boolean isThere =
                element.isContainerNode() ? hasContainer(whole, element) : hasScalar(whole, element);
            if (!isThere) {
                return false;
            }
        }
        return true;
    }

    private static boolean isMember(JsonNode part, JsonNode whole) {
        if (!part.isContainerNode() || !whole.isContainerNode()) {
            return isSame(whole, part);
        }
        return part.isObject() == whole.isObject() && isIn(part, whole);
    }

    private static boolean hasContainer(JsonNode array, JsonNode wanted) {
        for (int n = 0; n < array.size(); n++) {
            JsonNode each = (JsonNode) array.get(n);
            boolean isAlike = each.isContainerNode() && each.isObject() == wanted.isObject();
            if (isAlike && isIn(wanted, each)) {
                return true;
            }
        }
        return false;
    }

    private static boolean hasScalar(JsonNode array, JsonNode wanted) {
        for (int n = 0; n < array.size(); n++) {
            if (isSame((JsonNode) array.get(n), wanted)) {
                return true;
            }
        }
        return false;
    }

    /** Whether both are one scalar; numbers are compared by value. */
    private static boolean isSame(JsonNode one, JsonNode other) {
        if (one.isNumber() && other.isNumber()) {
            return one.decimalValue().compareTo(other.decimalValue()) == 0;
        }
        return !one.isContainerNode() && one.equals(other);
    }
}

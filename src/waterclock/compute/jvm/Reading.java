package waterclock;

import org.antlr.v4.runtime.BufferedTokenStream;
import org.antlr.v4.runtime.CharStreams;
import org.antlr.v4.runtime.CommonTokenStream;
import org.antlr.v4.runtime.ParserRuleContext;
import org.antlr.v4.runtime.Token;
import org.antlr.v4.runtime.TokenStream;
import org.antlr.v4.runtime.atn.DecisionState;
import org.antlr.v4.runtime.atn.ParserATNSimulator;
import org.antlr.v4.runtime.atn.PredictionMode;
import org.apache.spark.sql.catalyst.parser.ParameterContext;
import org.apache.spark.sql.catalyst.parser.SqlBaseLexer;
import org.apache.spark.sql.catalyst.parser.SqlBaseParser;
import org.apache.spark.sql.catalyst.parser.UpperCaseCharStream;
import org.apache.spark.sql.execution.SparkSqlParser;
import scala.Function1;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction2;

/**
 * Spark's parser, which reads long expressions quickly.
 *
 * What begins with CASE, CAST or a parenthesis could be several things in Spark's grammar, where
 * hardly a word is reserved. Its parser simulates all of them up to the closing word, again for
 * each that is nested in another, and remembers every text that it has met on the way: texts of
 * ours took more time for that than for anything else.
 *
 * Here the choice is made by looking at tokens alone, where they leave one choice, or several of
 * which the grammar prefers that one. Whatever else there is, the simulation decides. So every text
 * means what it meant: if a choice was wrong then the text does not fit it, and as always after a
 * quick reading that failed, Spark's parser reads the text again, now without us.
 */
public final class Reading extends SparkSqlParser {
    public Object parse(String command, Function1 result) {
        return super.parse(command, new Reading.Quickly(result));
    }

    public Object parseWithParameters(String command, ParameterContext context, Function1 result) {
        return super.parseWithParameters(command, context, new Reading.Quickly(result));
    }

    /** Has a session read with it, unless it has a parser that is not Spark's own. */
    public static final class Maker extends AbstractFunction2 {
        public Object apply(Object session, Object given) {
            return given.getClass() == SparkSqlParser.class ? new Reading() : given;
        }
    }

    /** What is made of a parser, after it was taught to choose. */
    private static final class Quickly extends AbstractFunction1 {
        private final Function1 result;

        Quickly(Function1 result) {
            this.result = result;
        }

        public Object apply(Object given) {
            SqlBaseParser parser = (SqlBaseParser) given;
            ParserATNSimulator old = (ParserATNSimulator) parser.getInterpreter();
            if (!(old instanceof Reading.Choosing)) {
                parser.setInterpreter(
                    new Reading.Choosing(parser, old, Reading.Choices.OF_GRAMMAR));
            }
            return result.apply(parser);
        }
    }

    /** Which alternative of the grammar is which. */
    private static final class Choices {
        static final Choices OF_GRAMMAR = new Choices();

        final int decision;
        final int searched;
        final int cast;
        final int inParentheses;

        private Choices() {
            decision = primary(of("1"));
            searched = chosen("CASE WHEN a THEN b END");
            cast = chosen("CAST(a AS INT)");
            inParentheses = chosen("(1)");
        }

        private static SqlBaseParser of(String expression) {
            SqlBaseLexer lexer =
                new SqlBaseLexer(new UpperCaseCharStream(CharStreams.fromString(expression)));
            return new SqlBaseParser(new CommonTokenStream(lexer));
        }

        /** The decision of what an expression is that no operator is applied to. */
        private static int primary(SqlBaseParser parser) {
            int found = -1;
            int most = 0;
            for (int n = 0; n < parser.getATN().getNumberOfDecisions(); n++) {
                DecisionState state = parser.getATN().getDecisionState(n);
                if (state.ruleIndex == SqlBaseParser.RULE_primaryExpression
                        && state.getNumberOfTransitions() > most) {
                    found = n;
                    most = state.getNumberOfTransitions();
                }
            }
            return found;
        }

        private int chosen(String expression) {
            SqlBaseParser parser = of(expression);
            ParserATNSimulator simulator = (ParserATNSimulator) parser.getInterpreter();
            parser.getTokenStream().LA(1); // reads what there is to be predicted from
            return simulator.adaptivePredict(
                parser.getTokenStream(), decision, new ParserRuleContext());
        }
    }

    /** Chooses where that is easy, and leaves the rest to the simulation. */
    private static final class Choosing extends ParserATNSimulator {
        private final Choices choices;

        Choosing(SqlBaseParser parser, ParserATNSimulator old, Choices choices) {
            super(parser, old.atn, old.decisionToDFA, old.getSharedContextCache());
            this.choices = choices;
            setPredictionMode(old.getPredictionMode());
        }

        public int adaptivePredict(TokenStream input, int decision, ParserRuleContext context) {
            if (decision == choices.decision && getPredictionMode() == PredictionMode.SLL) {
                int first = input.LA(1);
                if (first == SqlBaseParser.CASE && input.LA(2) == SqlBaseParser.WHEN) {
                    return choices.searched;
                }
                if (first == SqlBaseParser.CAST && input.LA(2) == SqlBaseParser.LEFT_PAREN) {
                    return choices.cast;
                }
                if (first == SqlBaseParser.LEFT_PAREN && isOneExpression(input)) {
                    return choices.inParentheses;
                }
            }
            return super.adaptivePredict(input, decision, context);
        }

        /** Whether there is no comma in the parentheses, and no query. */
        private static boolean isOneExpression(TokenStream input) {
            BufferedTokenStream tokens = (BufferedTokenStream) input;
            tokens.fill();
            int depth = 0;
            boolean isBegun = false;
            for (int n = tokens.index(); n < tokens.size(); n++) {
                Token token = tokens.get(n);
                int type = token.getType();
                if (token.getChannel() != Token.DEFAULT_CHANNEL) {
                    continue;
                }
                if (type == SqlBaseParser.LEFT_PAREN) {
                    depth++;
                } else if (!isBegun && mayBeginQuery(type)) {
                    return false;
                } else if (type == SqlBaseParser.COMMA && depth == 1) {
                    return false;
                } else if (type == SqlBaseParser.RIGHT_PAREN) {
                    depth--;
                }
                if (depth == 0) {
                    return true;
                }
                isBegun = isBegun || type != SqlBaseParser.LEFT_PAREN;
            }
            return false;
        }

        private static boolean mayBeginQuery(int type) {
            return type == SqlBaseParser.SELECT
                || type == SqlBaseParser.WITH
                || type == SqlBaseParser.FROM
                || type == SqlBaseParser.VALUES
                || type == SqlBaseParser.TABLE
                || type == SqlBaseParser.MAP
                || type == SqlBaseParser.REDUCE;
        }
    }
}

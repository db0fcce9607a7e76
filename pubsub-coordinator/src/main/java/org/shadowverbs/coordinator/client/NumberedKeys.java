// SPDX-License-Identifier: Apache-2.0
package org.shadowverbs.coordinator.client;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.TreeSet;
import java.util.function.Consumer;

/**
 * Wishes for the keys of many ranks, in few words: {@code x/{0-2046,2050}} stands for {@code x/0} to {@code x/2046} and
 * {@code x/2050}. So a rank that wants a value of each other one says it in one string, and the coordinator need not
 * read n strings of n ranks. Where a wanted key may stand such a wish may; a key has no braces.
 */
public final class NumberedKeys {
    /** More numbers than this no wish may stand for: it would be a mistake, and cost all memory. */
    public static final int MOST = 1 << 22;

    private NumberedKeys() {
    }

    /** Adds wishes for the keys that are the prefix and one of the numbers each; none are below 0. */
    public static void want(final Collection<String> wanted, final String prefix, final Collection<Integer> numbers) {
        final List<Integer> runs = runs(numbers);
        if (runs.isEmpty()) {
            return;
        }
        if (runs.size() == 2 && runs.get(0).equals(runs.get(1))) {
            wanted.add(prefix + runs.get(0));
            return;
        }
        final StringBuilder wish = new StringBuilder(prefix).append('{');
        for (int i = 0; i < runs.size(); i += 2) {
            wish.append(i == 0 ? "" : ",").append(runs.get(i));
            if (!runs.get(i).equals(runs.get(i + 1))) {
                wish.append('-').append(runs.get(i + 1));
            }
        }
        wanted.add(wish.append('}').toString());
    }

    /** The numbers in their order as runs without a gap: the first and the last of each. */
    public static List<Integer> runs(final Collection<Integer> numbers) {
        final List<Integer> runs = new ArrayList<Integer>();
        for (final int number : numbers instanceof TreeSet<Integer> sorted ? sorted : new TreeSet<Integer>(numbers)) {
            if (!runs.isEmpty() && runs.get(runs.size() - 1) == number - 1) {
                runs.set(runs.size() - 1, number);
            } else {
                runs.add(number);
                runs.add(number);
            }
        }
        return runs;
    }

    /** The numbers in those runs. */
    public static List<Integer> numbers(final List<Integer> runs) {
        final List<Integer> numbers = new ArrayList<Integer>();
        for (int i = 0; i + 1 < runs.size(); i += 2) {
            for (int number = runs.get(i); number <= runs.get(i + 1); number++) {
                numbers.add(number);
            }
        }
        return numbers;
    }

    /** The keys that it stands for, mostly itself. Errors are those of {@link #check}. */
    public static void each(final String wish, final Consumer<String> key) {
        final int open = wish.indexOf('{');
        if (open < 0) {
            key.accept(wish);
            return;
        }
        final String prefix = wish.substring(0, open);
        final int[] runs = parse(wish, open);
        for (int i = 0; i < runs.length; i += 2) {
            for (int number = runs[i]; number <= runs[i + 1]; number++) {
                key.accept(prefix + number);
            }
        }
    }

    /**
     * @throws IllegalArgumentException it has a brace and is none of {@link #want}'s, or stands for more than {@link
     * #MOST} keys
     */
    public static void check(final String wish) {
        final int open = wish.indexOf('{');
        if (open >= 0) {
            parse(wish, open);
        }
    }

    private static int[] parse(final String wish, final int open) {
        if (!wish.endsWith("}")) {
            throw new IllegalArgumentException("a wish that nobody understands: " + wish);
        }
        final String[] words = wish.substring(open + 1, wish.length() - 1).split(",");
        final int[] runs = new int[2 * words.length];
        long all = 0;
        for (int i = 0; i < words.length; i++) {
            final int dash = words[i].indexOf('-', 1);
            final int first = Integer.parseInt(dash < 0 ? words[i] : words[i].substring(0, dash));
            final int last = dash < 0 ? first : Integer.parseInt(words[i].substring(dash + 1));
            all += (long) last - first + 1;
            if (first < 0 || last < first || all > MOST) {
                throw new IllegalArgumentException("a wish for too many keys: " + wish);
            }
            runs[2 * i] = first;
            runs[2 * i + 1] = last;
        }
        return runs;
    }
}

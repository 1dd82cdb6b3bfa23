/* Reads the features of a second of sound, 49 x 10 floats, and prints the scores of twelve words.

   On a board, call `best_word` with features that you computed from the microphone. */
#include "keyword.h"
#include <stdio.h>

static KEYWORD_ALIGNED unsigned char arena[KEYWORD_ARENA_BYTES];

/* Compute the scores. Return the number of the word with the largest score, or -1 after an error. */
static int best_word(const float *mfcc, float *scores)
{
    keyword_arguments arguments = {0};
    arguments.input.mfcc = mfcc;
    arguments.output.scores = scores;
    arguments.arena = arena;
    arguments.arena_bytes = sizeof arena;
    if (keyword_run(&arguments) != 0)
        return -1;
    int best = 0;
    for (int word = 1; word < KEYWORD_OUTPUT_SCORES_ELEMENTS; ++word)
        if (scores[word] > scores[best])
            best = word;
    return best;
}

int main(void)
{
    static float mfcc[KEYWORD_INPUT_MFCC_ELEMENTS], scores[KEYWORD_OUTPUT_SCORES_ELEMENTS];
    if (fread(mfcc, sizeof mfcc, 1, stdin) != 1) {
        fprintf(stderr, "wanted %d floats\n", KEYWORD_INPUT_MFCC_ELEMENTS);
        return 1;
    }
    const int word = best_word(mfcc, scores);
    for (int k = 0; k < KEYWORD_OUTPUT_SCORES_ELEMENTS; ++k)
        printf("word %2d: %7.3f%s\n", k, (double)scores[k], k == word ? "  <- the largest" : "");
    return word < 0;
}

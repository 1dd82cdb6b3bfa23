// Finds the faces in a photograph: ./faces PICTURE.ppm
//
// One line for each face: left, top, right and bottom in pixels, how sure the detector is, and the two eyes. The
// network, the resizing before it, and the selection of boxes after it are in faces.c, and the weights are linked into the
// program, so it needs no library and no other file.

#include "faces.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

struct Picture {
    std::int64_t columns = 0, rows = 0;
    std::vector<std::uint8_t> pixels;  // [rows, columns, 3]: red, green, blue
};

// The next number of a PPM header; comments go from # to the end of the line.
static std::int64_t number(std::istream &file)
{
    while (file >> std::ws && file.peek() == '#')
        file.ignore(1 << 20, '\n');
    std::int64_t value = -1;
    file >> value;
    return file ? value : -1;
}

static Picture read_ppm(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    if (!file)
        throw faces::Error(path + " cannot be read");
    char magic[2] = {};
    file.read(magic, 2);
    if (magic[0] != 'P' || magic[1] != '6')
        throw faces::Error(path + " is not a binary PPM file (P6); try: convert PICTURE.jpg " + path);
    Picture picture;
    picture.columns = number(file);
    picture.rows = number(file);
    const std::int64_t most = number(file);
    if (picture.columns < 1 || picture.rows < 1 || picture.columns > 8192 || picture.rows > 8192)
        throw faces::Error(path + ": wanted sides from 1 to 8192 pixels");
    if (most != 255)
        throw faces::Error(path + ": wanted one byte per colour, a maximum of 255");
    file.get();  // one white space ends the header
    picture.pixels.resize(static_cast<std::size_t>(picture.columns * picture.rows * 3));
    file.read(reinterpret_cast<char *>(picture.pixels.data()), static_cast<std::streamsize>(picture.pixels.size()));
    if (file.gcount() != static_cast<std::streamsize>(picture.pixels.size()))
        throw faces::Error(path + " ends before its last pixel");
    return picture;
}

int main(int count, char **words)
{
    if (count != 2) {
        std::fprintf(stderr, "usage: %s PICTURE.ppm\n", words[0]);
        return 2;
    }
    try {
        const Picture picture = read_ppm(words[1]);
        faces::Model model;
        model.set_size("rows", picture.rows);
        model.set_size("columns", picture.columns);
        model.set_input("picture", picture.pixels);
        model.run();
        const auto &boxes = model.get_output<float>("boxes_in_picture");
        const auto &scores = model.get_output<float>("found_scores");
        const auto &points = model.get_output<float>("landmarks_in_picture");
        std::printf("%zu face%s\n", scores.size(), scores.size() == 1 ? "" : "s");
        for (std::size_t k = 0; k < scores.size(); ++k) {
            const float *box = &boxes[4 * k], *eyes = &points[10 * k];
            std::printf("x %.1f to %.1f, y %.1f to %.1f: %.0f%% sure, eyes at (%.1f, %.1f) and (%.1f, %.1f)\n", box[0],
                        box[2], box[1], box[3], 100 * scores[k], eyes[0], eyes[1], eyes[2], eyes[3]);
        }
    } catch (const faces::Error &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}

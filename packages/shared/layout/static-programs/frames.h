/* Frames between the agent and a program: one byte for the type, the length of the body in four big-endian bytes. */
#ifndef CLOCHE_FRAMES_H
#define CLOCHE_FRAMES_H

#include "system.h"

#define HEAD 5
#define FRAME_TEXT_BYTES 32

/* The frame that is being received. `text` has the start of its body, if the receiver keeps it. */
struct frame {
    uint8_t head[HEAD];
    size_t head_length;
    uint32_t left;
    char text[FRAME_TEXT_BYTES];
    size_t text_length;
};

/* What a receiver does with each frame: at its head, with each piece of its body, and at its end. */
struct receiver {
    void (*begin)(char type);
    void (*take)(char type, const uint8_t *bytes, size_t length);
    void (*finish)(char type, const char *text);
};

static inline void write_head(uint8_t *head, char type, size_t length) {
    head[0] = (uint8_t)type;
    for (int at = 0; at < 4; at++) head[1 + at] = (uint8_t)(length >> (24 - 8 * at));
}

static inline uint32_t body_length(const uint8_t *head) {
    return (uint32_t)head[1] << 24 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 8 | head[4];
}

static inline void keep_text(struct frame *frame, const uint8_t *bytes, size_t length) {
    size_t room = FRAME_TEXT_BYTES - 1 - frame->text_length, kept = length < room ? length : room;
    memcpy(frame->text + frame->text_length, bytes, kept);
    frame->text_length += kept;
}

/* Hands out what has arrived. The bodies are passed on in pieces, so frames of every length take the same memory. */
static inline void take_bytes(struct frame *frame, const struct receiver *receiver, const uint8_t *bytes,
                              size_t length) {
    for (size_t at = 0, step; at < length; at += step) {
        step = 1;
        char type = (char)frame->head[0];
        if (frame->head_length < HEAD) {
            frame->head[frame->head_length++] = bytes[at];
            if (frame->head_length < HEAD) continue;
            frame->left = body_length(frame->head);
            type = (char)frame->head[0];
            receiver->begin(type);
        } else {
            step = length - at < frame->left ? length - at : frame->left;
            keep_text(frame, bytes + at, step);
            receiver->take(type, bytes + at, step);
            frame->left -= (uint32_t)step;
        }
        if (frame->left > 0) continue;
        frame->text[frame->text_length] = 0;
        frame->head_length = frame->text_length = 0;
        receiver->finish(type, frame->text);
    }
}

#endif

/* Events of one subject, as a page or as a stream, whichever the client asks for. */
#pragma once

struct call;

/* subject: a sandbox or a task, checked; NULL: all that the caller may look at. Ends the call. */
void events_answer(struct call *call, const char *subject);
/* A stream in any case, of a session: it begins with `first` and ends with the session. */
void events_stream(struct call *call, const char *subject, const char *first);

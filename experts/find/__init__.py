"""What does a person see of the queue?

    reading       asks as their asker sees them
    unstaffed     skills of asks that no one has
    failing       expert models that do not answer
    filters       facets, search and sort of the queue
    board         queue rows, their order, headline
    one_ask       what the page of one ask shows
    panels        what is beside the answer form
    earlier_decisions  earlier decisions on the same tools
    answer_links  links that answer without a session
    episode_tokens  tokens that ask for one episode
    similar       earlier answers that can help
    pictured      pictures of questions, in words
    attached      files of asks that an actor sees
    my_answers    a person's answers, and their ends
    held_answers  answers that can still be undone

Writes, pages, sockets and upper apps import it; it writes nothing.
"""

#include <stdlib.h>

typedef struct node { int value; struct node *next; } node;

node push(node *head, int v)
{
    node *n = malloc(sizeof *n);
    n->value = v;
    n->next = head;
    return n;
}

int main(void)
{
    return push(NULL, 1).value;
}

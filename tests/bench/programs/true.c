/* true: does nothing, successfully. Static, once with musl and once with glibc: what is left of a
 * measurement when a program costs next to nothing. */
int main(void)
{
  return 0;
}
